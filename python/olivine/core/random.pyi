"""Random numbers."""

from collections.abc import Iterator, Sequence

from olivine.core import Dtype, StreamOrDevice, array, float32, int32, scalar

class _RandomState:
    """The default key, as a list of one array."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> array: ...
    def __setitem__(self, index: int, key: array, /) -> None: ...
    def __iter__(self) -> Iterator[array]: ...

state: _RandomState

def seed(seed: int) -> None: ...
def key(seed: int) -> array: ...
def split(key: array, num: int = 2, stream: StreamOrDevice = None) -> array: ...
def uniform(
    low: scalar | array = 0,
    high: scalar | array = 1,
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def normal(
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    loc: scalar | array | None = None,
    scale: scalar | array | None = None,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def multivariate_normal(
    mean: array,
    cov: array,
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def randint(
    low: scalar | array,
    high: scalar | array,
    shape: Sequence[int] = [],
    dtype: Dtype | None = int32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def bernoulli(
    p: scalar | array = 0.5,
    shape: Sequence[int] | None = None,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def truncated_normal(
    lower: scalar | array,
    upper: scalar | array,
    shape: Sequence[int] | None = None,
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def gumbel(
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def categorical(
    logits: array,
    axis: int = -1,
    shape: Sequence[int] | None = None,
    num_samples: int | None = None,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def laplace(
    shape: Sequence[int] = [],
    dtype: Dtype | None = float32,
    loc: float = 0.0,
    scale: float = 1.0,
    key: array | None = None,
    stream: StreamOrDevice = None,
) -> array: ...
def permutation(
    x: int | array, axis: int = 0, key: array | None = None, stream: StreamOrDevice = None
) -> array: ...
