"""Load the plugin from the source tree; an installed copy registers under the same name, so it loads once."""

from harness._numpy_loops import leave_out_avx512

# Before a plugin imports numpy.
leave_out_avx512()

pytest_plugins = ["harness.plugin", "harness.state_plugin"]
