"""What the site adds to the pages of docs/: CONTRIBUTING.md as one of them, README's figures inside others,
and their picture.

mkdocs calls these functions by their names.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

CONTRIBUTING, PAGE = "CONTRIBUTING.md", "contributing.md"
PICTURE = "benchmarks/results/fronts.png"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """CONTRIBUTING.md, which lies beside docs/, is a page of the site; README's picture is a file of it."""
    text = _beside_docs(config, CONTRIBUTING).replace("](docs/", "](")
    files.append(File.generated(config, PAGE, content=text))
    picture = Path(config.config_file_path).parent / PICTURE
    files.append(File.generated(config, PICTURE, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, config: MkDocsConfig, **_: object) -> str:
    """Links to CONTRIBUTING.md stay inside, `<!-- README: NAME -->` becomes that block of README, and
    "```python name.py" a block with that title."""
    markdown = re.sub(rf"\]\(((?:\.\./)*)\.\./{re.escape(CONTRIBUTING)}", rf"](\1{PAGE}", markdown)
    readme = _beside_docs(config, "README.md")
    markdown = re.sub("<!-- README: (.+) -->", lambda found: _block(readme, found[1]), markdown)
    return re.sub(r"^```(\w+) ([\w.-]+)$", r'```\1 title="\2"', markdown, flags=re.MULTILINE)


def _beside_docs(config: MkDocsConfig, name: str) -> str:
    return (Path(config.config_file_path).parent / name).read_text(encoding="utf-8")


def _block(readme: str, name: str) -> str:
    """What README holds between `<!-- NAME -->` and `<!-- end NAME -->`."""
    return readme.partition(f"<!-- {name} -->")[2].partition(f"<!-- end {name} -->")[0]
