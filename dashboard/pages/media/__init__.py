"""The page of images and sounds."""
