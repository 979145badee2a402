// What the build embeds into a library. Given: OCTAVE_NAMESPACE and OCTAVE_ARCH (strings); the files index.txt and
// bundles.bin in the current folder.

    .section .rodata
    .globl octave_namespace, octave_arch
    .hidden octave_namespace, octave_arch
octave_namespace:
    .asciz OCTAVE_NAMESPACE
octave_arch:
    .asciz OCTAVE_ARCH

    .section .octave_index, "a", @progbits
    .globl octave_index, octave_index_end
    .hidden octave_index, octave_index_end
octave_index:
    .incbin "index.txt"
octave_index_end:

    .section .hip_fatbin, "a", @progbits
    .p2align 12
    .globl octave_bundles
    .hidden octave_bundles
octave_bundles:
    .incbin "bundles.bin"

    .section .note.GNU-stack, "", @progbits
