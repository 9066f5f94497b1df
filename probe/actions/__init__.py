"""What a training does about a finding: nothing but say so, unless the configuration asks for more."""
