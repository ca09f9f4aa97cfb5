// Nothing: the scalar intrinsics that the DSP's sources use are in devices/hexagon/dsp/machine.h.
#pragma once
