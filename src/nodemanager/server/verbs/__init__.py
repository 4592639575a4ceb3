"""The actions on objects: get, list, watch, create, update, patch, delete."""
