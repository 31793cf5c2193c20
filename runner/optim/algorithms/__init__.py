"""Optimizers that the libraries lack or that need more than theirs: LAMB (`trust_ratio`), Sophia-H with its Hessian
(`sophia`), state in 8 bits (`quantized`), and optimizers of pytorch_optimizer adapted to the loop (`adapted`): GaLore,
NorMuon, Shampoo, SPlus, StableAdamW."""
