"""Programs of which native code computes regions and ONNX Runtime the rest."""
