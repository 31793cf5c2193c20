"""Optimizers that the libraries lack or that need more than theirs: LAMB (`trust_ratio`), Sophia-H with its Hessian
(`sophia`), state in 8 bits (`quantized`), and those of pytorch_optimizer as the loop needs them (`adapted`): GaLore,
NorMuon, Shampoo, SPlus, StableAdamW."""
