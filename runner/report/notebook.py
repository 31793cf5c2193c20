"""Shows a run in a notebook: its state and metrics, the curve of its loss, and a link to its page."""

from html import escape

import numpy as np

from tiryns.runner.report.curves import LOSS, Chart, run_charts
from tiryns.runner.report.page import number
from tiryns.runner.run.folder import Run

WIDE, TALL = 360, 120

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b0468c")


def card(run: Run) -> str:
    """Returns the run as HTML that needs no script.

    Example:
        >>> card(Run("outputs/gone"))
        '<div><b>outputs/gone</b>: unknown, step 0</div>'
    """
    page, metrics = run.path / "report.html", {}
    if run.monitor and (value := run.final(run.monitor)) is not None:
        metrics[f"last {run.monitor}"] = value
    metrics |= {f"best {run.monitor}": run.results["objective"]} if "objective" in run.results else {}
    metrics |= {name: value for name, value in run.results.items() if name.startswith("test/")}
    rows = "".join(f"<tr><td>{escape(k)}</td><td>{number(v)}</td></tr>" for k, v in metrics.items())
    charts = [chart for chart in run_charts(run.series, run.results) if chart.title == LOSS]
    parts = [f"<b>{escape(run.name)}</b>: {escape(run.state)}, step {run.step:,}"]
    parts += [f"<table>{rows}</table>"] * bool(rows) + [_picture(chart) for chart in charts]
    if page.exists():
        parts.append(f'<p><a href="{escape(str(page), quote=True)}">report</a></p>')
    return f"<div>{''.join(parts)}</div>"


def _picture(chart: Chart) -> str:
    """Returns the curves of a chart without axes, with their first and last values in words."""
    curves = [curve for curve in chart.curves if not curve.faint and np.isfinite(curve.values).any()]
    if not curves:
        return ""
    steps = np.concatenate([curve.steps for curve in curves])
    values = np.concatenate([curve.values[np.isfinite(curve.values)] for curve in curves])
    first, last, low, high = steps.min(), steps.max(), values.min(), values.max()
    lines, names = [], []
    for curve, colour in zip(curves, COLOURS, strict=False):
        x = 2 + (WIDE - 4) * (curve.steps - first) / max(1, last - first)
        y = 2 + (TALL - 4) * (high - curve.values) / ((high - low) or 1)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True) if np.isfinite(b))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        span = f"{number(float(curve.values[0]))} to {number(float(curve.values[-1]))}"
        names.append(f'<span style="color:{colour}">{escape(curve.label)} {span}</span>')
    size = f'width="{WIDE}" height="{TALL}" viewBox="0 0 {WIDE} {TALL}"'
    return f"<svg {size}>{''.join(lines)}</svg><br/><small>loss: {', '.join(names)}</small>"
