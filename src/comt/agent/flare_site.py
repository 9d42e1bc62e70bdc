"""The site's object in the engine, NVIDIA FLARE: the one class that a site allows, with one method that may be called."""

from __future__ import annotations

from pathlib import Path

from nvflare.collab import collab

from comt.agent.site_config import FILE, SiteConfig
from comt.agent.site_service import SiteService


class FlareSite:
    """Lives in the site's job process for a whole training. It takes no argument: a coordinator can choose nothing here."""

    @collab.init  # type: ignore[untyped-decorator]
    def open(self) -> None:
        """Find the site's own settings; they are read when a training is joined."""
        path = self.settings(Path(collab.workspace.get_site_config_dir()), collab.site_name)
        self.site = SiteService(collab.site_name, lambda: SiteConfig.load(path))

    def settings(self, local: Path, site: str) -> Path:
        """Return where the settings of this site are: in the folder of its kit that only the site writes to."""
        del site
        return local / FILE

    @collab.publish  # type: ignore[untyped-decorator]
    def ask(self, message: bytes) -> bytes:
        """Answer one message of the coordinator; other sites have nothing to ask."""
        if collab.caller != "server":
            raise PermissionError("only the coordinator may ask")
        return self.site.handle(message)
