"""Operations on lists of tensors, one kernel for all.

torch's optimizers use them (`torch/optim/_multi_tensor`), and torch documents them (`docs/source/torch.md`, "Foreach
Operations") under names that begin with an underscore; from 2.15 on `torch.foreach` has them, as a beta. One call for
each tensor instead takes up to ten times as long for the many small tensors of a model.
"""

import torch

copy_ = torch._foreach_copy_
lerp_ = torch._foreach_lerp_
mul_ = torch._foreach_mul_
norm = torch._foreach_norm
