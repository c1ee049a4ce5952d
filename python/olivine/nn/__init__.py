"""Neural networks: modules, layers, activation functions, losses and initialisers.

>>> import olivine.core as mx
>>> import olivine.nn as nn
>>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
>>> model(mx.ones((3, 4))).shape
(3, 1)
"""

from olivine.nn import init as init, layers as layers, losses as losses, utils as utils
from olivine.nn.layers import *
from olivine.nn.utils import average_gradients as average_gradients, value_and_grad as value_and_grad
