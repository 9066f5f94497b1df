"""The zoo: trainings as strangers write them, healthy and broken, watched with `mindscope run` as they are."""
