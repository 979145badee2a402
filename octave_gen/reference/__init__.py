"""What the kernels do, in torch: store, rotate, paged decode, split partials and their reduction."""
