"""Optimizers that the libraries lack or that need more than theirs: LAMB (`trust_ratio`), Sophia-H with its Hessian
(`sophia`), SPlus with its running average (`averaged`), state that saves as tensors alone (`plain_state`), and state in 8
bits (`quantized`)."""
