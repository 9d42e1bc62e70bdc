"""The site's object in the engine, NVIDIA FLARE: the one class that a site allows, with one method that may be called."""

from __future__ import annotations

from pathlib import Path

from nvflare.collab import collab

from comt.agent.site_config import FILE, SiteConfig
from comt.agent.site_service import SiteService
from comt.masking.identity import Authority, CertificateIdentity, Directory, Identity


def keys_of(kit: Path) -> tuple[Identity, Directory]:
    """Return the key of a kit, and the federation's certificate by which it knows the other sites."""
    startup = kit / "startup"
    identity = CertificateIdentity.load(startup / "client.crt", startup / "client.key")
    return identity, Authority((startup / "rootCA.pem").read_bytes())


class FlareSite:
    """Lives in the site's job process for a whole training. It takes no argument: a coordinator can choose nothing here."""

    @collab.init  # type: ignore[untyped-decorator]
    def open(self) -> None:
        """Find the site's own settings; they are read when a training is joined."""
        local = Path(collab.workspace.get_site_config_dir())
        path = self.settings(local, collab.site_name)
        self.site = SiteService(collab.site_name, lambda: SiteConfig.load(path), lambda: keys_of(local.parent))

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
