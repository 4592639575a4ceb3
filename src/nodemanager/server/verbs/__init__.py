"""What can be done with objects: get, list, watch, create, update, patch, delete."""
