"""Load the plugin from the source tree; an installed copy registers under the same name, so it loads once."""

pytest_plugins = ["harness.plugin", "harness.state_plugin"]
