"""What surrounds the heavy ops: pooling, elementwise groups, copies, softmax; one file each."""
