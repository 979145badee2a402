"""OCTOPUS: triplets of rotated values as a norm and a direction on the octahedron. `codec` is the format."""
