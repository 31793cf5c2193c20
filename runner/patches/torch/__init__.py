"""PyTorch (2.10 to 2.15): what it computes or keeps under private names.

- `foreach`, `flash`: operations on lists of tensors, and attention on a CPU.
- `processor`: what the CPU multiplies fast. `shards`: which part of a tensor a rank has. `trees`: states of modules.
- `modules`, `optimizers`: parts of a module, and what an optimizer does itself.
- `loaders`: the processes of a `DataLoader`. `meetings`: the events that agents record while they meet.
"""
