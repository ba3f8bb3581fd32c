from __future__ import annotations

from pathlib import Path

from tidegate.hudi_bridge.watched import find_tables
from tidegate.storage import Storage


def test_a_star_stands_for_the_name_of_one_directory(tmp_path: Path) -> None:
    for name in ("sales/orders", "sales/old_items", "sales/.hidden", "raw/orders", "raw/x/deep"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "sales/file").write_text("")

    def found(*patterns: str) -> list[str]:
        paths = find_tables(Storage(), [str(tmp_path / pattern) for pattern in patterns])
        return [str(Path(path).relative_to(tmp_path)) for path in paths]

    assert found("sales/*") == ["sales/old_items", "sales/orders"]
    assert found("*/orders") == ["raw/orders", "sales/orders"]
    assert found("sales/o*s") == ["sales/old_items", "sales/orders"]
    assert found("sales/*_items") == ["sales/old_items"]
    assert found("raw/orders", "raw/*") == ["raw/orders", "raw/x"]
    assert found("gone/*") == []
    assert found("named/outright") == ["named/outright"]
