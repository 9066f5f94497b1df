"""What has to be known of a framework's tensors, so that one set of hooks serves all frameworks."""
