"""Optimizers that the libraries lack or that need more than theirs: LAMB (`trust_ratio`), Sophia-H with its Hessian
(`sophia`), SPlus with its running average (`averaged`), NorMuon (`normuon`), StableAdamW with its ratios (`stable`),
cautious weight decay (`cautious`), state that saves as tensors alone (`plain_state`), state in 8 bits (`quantized`)."""
