"""Small graphs as exporters write them: PyTorch's two, tf2onnx from Keras, jax2onnx, paddle2onnx, skl2onnx.

    python -m benchmarks.trust.exported NAME FILE

EXPORTED names each; one whose exporter is not installed raises ImportError. `export` makes it in a process of
its own: exporters bring libraries that do not bear each other, and some end the process where they refuse.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

Export = Callable[[], onnx.ModelProto]
EXPORTED: dict[str, Export] = {}

_OPSET = 17


def _exported(name: str) -> Callable[[Export], Export]:
    def register(export: Export) -> Export:
        EXPORTED[name] = export
        return export

    return register


# PyTorch


def _torch_modules() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Modules with what they take, by name."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    images, rows = torch.randn(2, 3, 16, 16), torch.randn(2, 6, 16)

    class Convolutions(nn.Module):
        """A residual, a depthwise and a transposed convolution; batch and group norms; pools; padding."""

        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(
                nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish()
            )
            self.second = nn.Sequential(
                nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.GroupNorm(2, 8), nn.SiLU()
            )
            self.up = nn.ConvTranspose2d(8, 4, 2, 2)
            self.head = nn.Linear(4, 5)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            x = x + self.second(x)
            x = nn.functional.max_pool2d(nn.functional.pad(self.up(x), (1, 0, 1, 0)), 3, 2, ceil_mode=True)
            x = nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")
            return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)).log_softmax(-1)

    class Recurrent(nn.Module):
        """An LSTM, a GRU, and the last step of both."""

        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(16, 8, batch_first=True, bidirectional=True)
            self.gru = nn.GRU(16, 8, batch_first=True)

        def forward(self, x: Any) -> Any:
            one, (state, _) = self.lstm(x)
            other, _ = self.gru(x)
            return one[:, -1], other[:, -1], state

    class Choices(nn.Module):
        """What depends on sizes, on sorting and on masks."""

        def forward(self, x: Any) -> Any:
            masked = x.masked_fill(x > 1, -1.0)
            best, where = masked.topk(3, dim=-1)
            gathered = torch.gather(x, -1, where)
            return (
                best.cumsum(-1) + gathered,
                torch.einsum("bij,bkj->bik", x, x).tril(),
                x.view(-1, x.size(-1)),
            )

    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
    return {
        "convolutions": (Convolutions(), (images,)),
        "transformer": (layer, (rows,)),
        "recurrent": (Recurrent(), (rows,)),
        "choices": (Choices(), (rows,)),
    }


def _torch(name: str, dynamo: bool) -> onnx.ModelProto:
    import torch

    module, inputs = _torch_modules()[name]
    buffer = io.BytesIO()
    axes = {"dynamic_axes": {"x": {0: "batch"}}, "opset_version": _OPSET, "input_names": ["x"]}
    if dynamo:
        axes = {"dynamic_shapes": ({0: torch.export.Dim("batch")},), "verbose": False}
    torch.onnx.export(module.eval(), inputs, buffer, dynamo=dynamo, **axes)
    return onnx.load_from_string(buffer.getvalue())


for _name in ("convolutions", "transformer", "recurrent", "choices"):
    EXPORTED[f"torch.export {_name}"] = partial(_torch, _name, True)
# Of the transformer, tracing makes a condition that PyTorch itself refuses.
for _name in ("convolutions", "recurrent", "choices"):
    EXPORTED[f"TorchScript {_name}"] = partial(_torch, _name, False)


# TensorFlow


def _of_function(function: Any, *signature: Any) -> onnx.ModelProto:
    """A function of TensorFlow's, by tf2onnx."""
    import tensorflow
    import tf2onnx

    traced = tensorflow.function(function, autograph=False)
    model, _ = tf2onnx.convert.from_function(traced, input_signature=list(signature), opset=_OPSET)
    return model  # type: ignore[no-any-return]


def of_keras(model: Any, *shape: int) -> onnx.ModelProto:
    """A Keras model of one input "x", whose batch is open, by tf2onnx."""
    import tensorflow

    signature = tensorflow.TensorSpec((None, *shape), tensorflow.float32, name="x")
    return _of_function(lambda x: model(x, training=False), signature)


@_exported("tf2onnx convolutions")
def _keras_convolutions() -> onnx.ModelProto:
    from keras import Sequential, layers

    return of_keras(
        Sequential(
            [
                layers.Input((16, 16, 3)), layers.Conv2D(8, 3, 2, "same", use_bias=False),
                layers.BatchNormalization(), layers.ReLU(6.0), layers.DepthwiseConv2D(3, padding="same"),
                layers.AveragePooling2D(2), layers.Conv2DTranspose(4, 3, 2, "same", activation="swish"),
                layers.UpSampling2D(2, interpolation="bilinear"), layers.GlobalAveragePooling2D(),
                layers.Dense(5, activation="softmax"),
            ]
        ),
        16, 16, 3,
    )  # fmt: skip


@_exported("tf2onnx recurrent")
def _keras_recurrent() -> onnx.ModelProto:
    from keras import Sequential, layers

    stack = [layers.Input((6, 16)), layers.LSTM(8, return_sequences=True), layers.GRU(8), layers.Dense(3)]
    return of_keras(Sequential(stack), 6, 16)


@_exported("tf2onnx text")
def _keras_text() -> onnx.ModelProto:
    import tensorflow
    from keras import Sequential, layers

    model = Sequential(
        [
            layers.Input((12,), dtype="int32"), layers.Embedding(20, 8),
            layers.Conv1D(8, 3, padding="causal"), layers.LayerNormalization(),
            layers.GlobalMaxPooling1D(), layers.Dense(4, "gelu"),
        ]
    )  # fmt: skip
    return _of_function(
        lambda x: model(x, training=False), tensorflow.TensorSpec((None, 12), tensorflow.int32, name="x")
    )


# JAX


def _jax_functions() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Functions of one array with its shape, by name; a letter is any size."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    values = np.random.default_rng(0)

    def weight(*shape: int) -> Any:
        return jnp.asarray(values.standard_normal(shape) / np.sqrt(shape[0]), jnp.float32)

    first, depthwise, head = weight(3, 3, 3, 8), weight(3, 3, 1, 8), weight(8, 5)
    query, key, value, last = (weight(16, 16) for _ in range(4))

    def convolutions(x: Any) -> Any:
        """Channels last, a stride, a depthwise convolution and a pool."""
        written = ("NHWC", "HWIO", "NHWC")
        x = jax.nn.relu(lax.conv_general_dilated(x, first, (2, 2), "SAME", dimension_numbers=written))
        x = x + lax.conv_general_dilated(
            x, depthwise, (1, 1), "SAME", dimension_numbers=written, feature_group_count=8
        )
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jax.nn.log_softmax(x.mean((1, 2)) @ head)

    def attention(x: Any) -> Any:
        """One head, a mask, a norm."""
        x = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        scores = jnp.einsum("bid,bjd->bij", x @ query, x @ key) / 4
        scores = jnp.where(jnp.tril(jnp.ones((6, 6), bool)), scores, -1e9)
        return x + jax.nn.gelu(jax.nn.softmax(scores) @ (x @ value)) @ last

    def recurrent(x: Any) -> Any:
        """A scan over the steps."""
        start = jnp.zeros((2, 16), jnp.float32)
        return lax.scan(lambda h, step: (jnp.tanh(step @ query + h @ key),) * 2, start, x.swapaxes(0, 1))[1]

    return {
        "convolutions": (convolutions, ("B", 16, 16, 3)),
        "attention": (attention, ("B", 6, 16)),
        "recurrent": (recurrent, (2, 6, 16)),
    }


def _jax(name: str) -> onnx.ModelProto:
    from jax2onnx import to_onnx

    function, shape = _jax_functions()[name]
    return to_onnx(function, [shape], opset=_OPSET)  # type: ignore[no-any-return]


for _name in ("convolutions", "attention", "recurrent"):
    EXPORTED[f"jax2onnx {_name}"] = partial(_jax, _name)


# PaddlePaddle


def _paddle(name: str) -> onnx.ModelProto:
    import paddle
    from paddle import nn

    paddle.seed(0)
    images, rows = ([None, 3, 16, 16], [None, 6, 16])

    class Recurrent(nn.Layer):  # type: ignore[misc]
        """An LSTM, a GRU, and the last step of both."""

        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.gru = nn.LSTM(16, 8, direction="bidirect"), nn.GRU(16, 8)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0][:, -1], self.gru(x)[0][:, -1]

    convolutions = nn.Sequential(
        nn.Conv2D(3, 8, 3, 2, 1, bias_attr=False), nn.BatchNorm2D(8), nn.Hardswish(),
        nn.Conv2D(8, 8, 3, padding=1, groups=8), nn.GroupNorm(2, 8), nn.Swish(),
        nn.Conv2DTranspose(8, 4, 2, 2), nn.MaxPool2D(3, 2, ceil_mode=True),
        nn.Upsample((14, 14), mode="bilinear"), nn.AdaptiveAvgPool2D(1), nn.Flatten(),
        nn.Linear(4, 5), nn.LogSoftmax(),
    )  # fmt: skip
    layer, shape = {
        "convolutions": (convolutions, images),
        "recurrent": (Recurrent(), rows),
        "transformer": (nn.TransformerEncoderLayer(16, 2, 32, activation="gelu"), rows),
    }[name]
    layer.eval()
    with tempfile.TemporaryDirectory() as folder:
        taken = [paddle.static.InputSpec(shape, "float32", "x")]
        path = Path(folder) / "m"
        paddle.onnx.export(layer, str(path), input_spec=taken, opset_version=_OPSET, optimize_tool="None")
        return onnx.load(path.with_suffix(".onnx"))


for _name in ("convolutions", "recurrent", "transformer"):
    EXPORTED[f"paddle2onnx {_name}"] = partial(_paddle, _name)


# scikit-learn


def _sklearn(estimator: Any, **options: Any) -> onnx.ModelProto:
    """An estimator trained on a made-up problem of three classes."""
    from skl2onnx import to_onnx

    values = np.random.default_rng(0)
    rows = values.standard_normal((60, 8)).astype(np.float32)
    estimator.fit(rows, values.integers(0, 3, 60))
    return to_onnx(estimator, rows[:1], target_opset=_OPSET, options={id(estimator): options})


@_exported("skl2onnx regression")
def _sklearn_regression() -> onnx.ModelProto:
    from sklearn.decomposition import PCA
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    return _sklearn(make_pipeline(StandardScaler(), PCA(4), MinMaxScaler(), Ridge()))


@_exported("skl2onnx perceptron")
def _sklearn_perceptron() -> onnx.ModelProto:
    from sklearn.neural_network import MLPClassifier

    return _sklearn(MLPClassifier((16,), max_iter=20, random_state=0), zipmap=False)


@_exported("skl2onnx forest")
def _sklearn_forest() -> onnx.ModelProto:
    from sklearn.ensemble import RandomForestClassifier

    return _sklearn(RandomForestClassifier(5, max_depth=4, random_state=0), zipmap=False)


@_exported("skl2onnx neighbours")
def _sklearn_neighbours() -> onnx.ModelProto:
    from sklearn.neighbors import KNeighborsClassifier

    return _sklearn(KNeighborsClassifier(3), zipmap=False)


@_exported("skl2onnx maps")
def _sklearn_maps() -> onnx.ModelProto:
    """Whose probabilities are a sequence of maps."""
    from sklearn.linear_model import LogisticRegression

    return _sklearn(LogisticRegression())


def export(name: str, path: Path) -> None:
    """Writes a graph; ImportError with the exporter's last words where it cannot be made here."""
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.trust.exported", name, str(path)],
        capture_output=True, text=True, errors="replace",
    )  # fmt: skip
    if made.returncode or not path.exists():
        words = made.stderr.strip().splitlines() or [f"ended with status {made.returncode}"]
        raise ImportError(f"{name} cannot be exported here: {words[-1][:200]}")


if __name__ == "__main__":
    onnx.save(EXPORTED[sys.argv[1]](), sys.argv[2])
