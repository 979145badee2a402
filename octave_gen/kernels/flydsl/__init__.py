"""The kernels in FlyDSL. Of this room the generator itself imports ``tiers`` alone; the rest runs where flydsl is
imported (``octave_gen.build.flydsl.child``)."""
