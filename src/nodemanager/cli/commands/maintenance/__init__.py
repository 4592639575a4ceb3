"""The commands about maintenances: one small file each, as in the folder above."""
