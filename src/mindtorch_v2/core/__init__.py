"""What a tensor is made of: dtypes, devices, sizes, storages, the tensor; and the slot a recorder sits in."""
