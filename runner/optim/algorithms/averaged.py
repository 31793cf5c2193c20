"""SPlus trains one set of weights and evaluates their running average (arXiv 2506.07254, section 4)."""

from pytorch_optimizer import SPlus


class LoopSPlus(SPlus):
    """SPlus whose two sets of weights may be exchanged at any time, before the first step as well."""

    def eval(self) -> None:
        """Puts the averaged weights into the model; parameters that were never updated stay."""
        for group in self.param_groups:
            if not group["train_mode"]:
                continue
            for parameter in group["params"]:
                state = self.state.get(parameter, {})
                if "ema" in state:
                    state["param_buffer"] = parameter.detach().clone()
                    parameter.data.copy_(state["ema"] / (1.0 - group["ema_rate"] ** group["step"]))
            group["train_mode"] = False

    def train(self) -> None:
        """Puts the trained weights back."""
        for group in self.param_groups:
            for parameter in [] if group["train_mode"] else group["params"]:
                if "param_buffer" in self.state.get(parameter, {}):
                    parameter.data.copy_(self.state[parameter].pop("param_buffer"))
            group["train_mode"] = True
