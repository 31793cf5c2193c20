"""Flash attention on a CPU with the gradient as a function of its own.

`torch.nn.functional.scaled_dot_product_attention` chooses this kernel itself but keeps the sums that its gradient needs,
so the gradient cannot be asked for from another autograd function. In torch 2.10 to 2.15 both are operators of `aten`.
"""

import torch

flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
