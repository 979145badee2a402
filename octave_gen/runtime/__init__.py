"""What runs beside torch: op schemas, CPU implementations, loading, dispatch, launches, query maps."""
