"""A bucket with versions, tables in it, and a warehouse that can die at every request."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from support.s3 import S3Server, s3_server
from tidegate.cleaning.quarantine import FOLDER
from tidegate.storage.file_info import Version
from tidegate.storage.parallel import batches_of
from tidegate.tables.warehouse import Warehouse, WarehouseRoots
from tidegate.tables.warehouse.s3_versions import VersionedS3

BUCKET: Final = "kept"
TABLE: Final = f"s3://{BUCKET}/wh/t"
FILES: Final = ("bucket_00000", "_orc_acid_version")


@dataclass(frozen=True)
class Kept:
    """The bucket, seen through the official client."""

    server: S3Server

    @property
    def client(self) -> Any:  # noqa: ANN401 - boto3 is untyped
        return self.server.client()

    def warehouse(self, at_step: Callable[[int], None] | None = None) -> Warehouse:
        """One whose every change calls `at_step`, in which every object is removed by itself."""
        roots, options = WarehouseRoots.of(f"s3://{BUCKET}/wh"), self.server.options(BUCKET)
        return Stepping(roots, options, at_step) if at_step else Warehouse(roots, options)

    def put(self, path: str, content: bytes = b"1") -> str:
        """Write an object of the table; return its version."""
        answer = self.client.put_object(Bucket=BUCKET, Key=f"wh/t/{path}", Body=content)
        return str(answer["VersionId"])

    def build(self, directories: Mapping[str, int]) -> None:
        """Replace the table by a new one."""
        self.clear()
        for name, size in directories.items():
            self.client.put_object(Bucket=BUCKET, Key=f"wh/t/{name}/", Body=b"")
            for number, file in enumerate(FILES):
                self.put(f"{name}/{file}", b"x" * (size + number))

    def files(self) -> dict[str, int]:
        """The current files of the table, with sizes; without quarantine and claims."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="wh/t/")
        found = {e["Key"][5:]: int(e["Size"]) for page in pages for e in page.get("Contents", ())}
        return {key: size for key, size in found.items() if key[0] != "." and key[-1] != "/"}

    def paths(self) -> list[str]:
        """All current files below the table."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="wh/t/")
        found = (entry["Key"][5:] for page in pages for entry in page.get("Contents", ()))
        return sorted(key for key in found if key[-1] != "/")

    def put_many(self, paths: Iterable[str]) -> None:
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(self.put, paths))

    def visible(self) -> list[str]:
        """The directories with files that a reader sees."""
        return sorted({key.partition("/")[0] for key in self.files()})

    def quarantine(self) -> list[str]:
        """The current keys of the quarantine."""
        prefix = f"wh/t/{FOLDER}/"
        answer = self.client.list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return [entry["Key"][len(prefix) :] for entry in answer.get("Contents", ())]

    def versions(self, prefix: str = "") -> list[tuple[str, str, bool]]:
        """Key, id, and whether it is a delete marker; of all versions below the table."""
        return [
            (row["Key"][5:], row["VersionId"], kind == "DeleteMarkers")
            for page in self.client.get_paginator("list_object_versions").paginate(
                Bucket=BUCKET, Prefix=f"wh/t/{prefix}"
            )
            for kind in ("Versions", "DeleteMarkers")
            for row in page.get(kind, ())
        ]

    def clear(self) -> None:
        for batch in batches_of(self.versions(), 1000):
            names = [{"Key": f"wh/t/{key}", "VersionId": id_} for key, id_, _ in batch]
            answer = self.client.delete_objects(Bucket=BUCKET, Delete={"Objects": names})
            assert not answer.get("Errors")

    def keep_versions(self, status: str = "Enabled") -> None:
        self.client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": status})


@contextmanager
def kept_bucket(program: str) -> Generator[Kept]:
    """An empty bucket with versions on a server."""
    with s3_server(program) as server:
        kept = Kept(server)
        with suppress(ClientError):  # another test made it
            kept.client.create_bucket(Bucket=BUCKET)
        kept.keep_versions()
        kept.clear()
        yield kept


class Stepping(Warehouse):
    """See `Kept.warehouse`."""

    def __init__(
        self,
        roots: WarehouseRoots,
        options: Mapping[str, Mapping[str, Any]],
        at_step: Callable[[int], None],
    ) -> None:
        super().__init__(roots, options)
        self.at_step = at_step

    def _open(self, place: str) -> _SteppingS3:
        return _SteppingS3(self.at_step, root=self.confined_to[0], **self.options[place])


class _SteppingS3(VersionedS3):
    def __init__(self, at_step: Callable[[int], None], **options: Any) -> None:  # noqa: ANN401
        super().__init__(BUCKET, **options)
        self.at_step, self.steps = at_step, 0
        _ = self.conditions  # is found out by requests of its own

    def _step(self) -> None:
        self.steps += 1
        self.at_step(self.steps)

    def create(self, location: str, content: bytes) -> None:
        self._step()
        super().create(location, content)

    def replace(self, location: str, content: bytes, if_version: Version) -> None:
        self._step()
        super().replace(location, content, if_version)

    def remove_names(self, folder: str, names: Sequence[str]) -> int:
        removed = 0
        for name in names:
            self._step()
            removed += super().remove_names(folder, [name])
        return removed

    def put_folder(self, location: str) -> None:
        self._step()
        super().put_folder(location)

    def delete_in_bulk(
        self, names: Sequence[Mapping[str, str]], *, on_condition: bool, quiet: bool = False
    ) -> tuple[list[Mapping[str, Any]], list[Exception]]:
        answers, faults = list[Mapping[str, Any]](), list[Exception]()
        for name in names:
            self._step()
            answer, fault = super().delete_in_bulk([name], on_condition=on_condition, quiet=quiet)
            answers += answer
            faults += fault
        return answers, faults
