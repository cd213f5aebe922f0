"""Where each key of a TOML text stands, from its syntax tree."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import tree_sitter_toml
from tree_sitter import Language, Node, Parser, Point

KeyPath = tuple[str | int, ...]
"""Keys and, for blocks and lists, numbers from 0, as one would index the values."""

DEEPEST_PATH = 6
"""Values nested deeper than any key that is in use are not located."""

_KEYS = ("bare_key", "quoted_key", "dotted_key")


class Position(NamedTuple):
    """A place in a text."""

    line: int
    """From 1."""
    column: int
    """In characters, from 1."""


class Duplicate(NamedTuple):
    """A key or a table that was there already."""

    path: KeyPath
    position: Position
    first: Position
    is_heading: bool


@dataclass(frozen=True)
class Located:
    """The places of the keys of one text."""

    lines: tuple[bytes, ...]
    points: Mapping[KeyPath, Point]
    duplicates: tuple[Duplicate, ...]
    last_table: KeyPath
    """The table to which a key at the end of the text would belong."""
    first_error: Position | None
    """Where the text stops being TOML, roughly."""

    def position(self, path: KeyPath) -> Position | None:
        """The place of a key, or None where the text has no such key."""
        point = self.points.get(path)
        return _position(self.lines, point) if point else None


def locate(text: str) -> Located:
    """Find every key of a text; a text that is not TOML gives what can be found in it."""
    source = text.encode()
    walk = _Walk(tuple(source.split(b"\n")))
    root = Parser(Language(tree_sitter_toml.language())).parse(source).root_node
    for node in root.named_children:
        walk.top_level(node)
    error = next((node for node in _descend(root) if node.is_error or node.is_missing), None)
    return Located(
        walk.lines,
        walk.points,
        tuple(walk.duplicates),
        walk.table,
        _position(walk.lines, error.start_point) if error else None,
    )


class _Walk:
    """State of one walk over the tree."""

    def __init__(self, lines: tuple[bytes, ...]) -> None:
        self.lines = lines
        self.points: dict[KeyPath, Point] = {}
        self.duplicates: list[Duplicate] = []
        self.table: KeyPath = ()
        self._blocks: dict[KeyPath, int] = {}
        """How many `[[name]]` there were."""
        self._headings: set[KeyPath] = set()
        self._values: set[KeyPath] = set()
        """Keys with a value of their own."""
        self._dotted: set[KeyPath] = set()
        """Tables that exist because a dotted key names them."""

    def top_level(self, node: Node) -> None:
        if node.type == "pair":
            self._pair((), node)
        if node.type not in ("table", "table_array_element"):
            return
        key = next((child for child in node.named_children if child.type in _KEYS), None)
        if key is None:
            return
        self._heading(key, is_block=node.type == "table_array_element")
        for child in node.named_children:
            if child.type == "pair":
                self._pair(self.table, child)

    def _heading(self, key: Node, *, is_block: bool) -> None:
        parts = _key_parts(key)
        path: KeyPath = ()
        for part, node in parts:
            if path in self._blocks:
                path = (*path, self._blocks[path] - 1)
            elif path in self._values:
                self._duplicate(path, node, is_heading=True)
            path = (*path, part)
            self.points.setdefault(path, node.start_point)
        taken = path in self._headings or path in self._values or path in self._dotted
        if taken or (path in self._blocks and not is_block):
            self._duplicate(path, parts[-1][1], is_heading=True)
        if is_block:
            number = self._blocks.get(path, 0)
            self._blocks[path] = number + 1
            path = (*path, number)
            self.points[path] = parts[-1][1].start_point
        else:
            self._headings.add(path)
        self.table = path

    def _pair(self, table: KeyPath, pair: Node) -> None:
        children = [child for child in pair.named_children if child.type != "comment"]
        if not children or children[0].type not in _KEYS:
            return
        path = table
        *parents, (last, last_node) = _key_parts(children[0])
        for part, node in parents:
            path = (*path, part)
            if path in self._values:
                self._duplicate(path, node, is_heading=False)
            self._dotted.add(path)
            self.points.setdefault(path, node.start_point)
        path = (*path, last)
        if path in self.points:
            self._duplicate(path, last_node, is_heading=False)
        else:
            self.points[path] = last_node.start_point
            self._values.add(path)
            if len(children) > 1:
                self._value(path, children[1])

    def _value(self, path: KeyPath, node: Node) -> None:
        if len(path) > DEEPEST_PATH:
            return
        if node.type == "inline_table":
            for child in node.named_children:
                if child.type == "pair":
                    self._pair(path, child)
        if node.type == "array":
            elements = (child for child in node.named_children if child.type != "comment")
            for number, element in enumerate(elements):
                self.points[(*path, number)] = element.start_point
                self._value((*path, number), element)

    def _duplicate(self, path: KeyPath, node: Node, *, is_heading: bool) -> None:
        first = _position(self.lines, self.points[path])
        self.duplicates.append(Duplicate(path, _position(self.lines, node.start_point), first, is_heading))


def _key_parts(key: Node) -> list[tuple[str, Node]]:
    """The parts of a dotted key with their nodes, from left to right."""
    return [(_key_name(node), node) for node in _descend(key) if node.type in ("bare_key", "quoted_key")]


def _key_name(node: Node) -> str:
    text = (node.text or b"").decode()
    if node.type == "bare_key":
        return text
    try:
        return next(iter(tomllib.loads(f"{text} = 0")))
    except tomllib.TOMLDecodeError:
        return text


def _descend(node: Node) -> list[Node]:
    """The node and all below it in the order of the text; without recursion, for lists can be nested at will."""
    found = []
    waiting = [node]
    while waiting:
        current = waiting.pop()
        found.append(current)
        waiting.extend(reversed(current.children))
    return found


def _position(lines: tuple[bytes, ...], point: Point) -> Position:
    """Tree-sitter counts columns in bytes from 0, editors in characters from 1."""
    before = lines[point.row][: point.column] if point.row < len(lines) else b""
    return Position(point.row + 1, len(before.decode(errors="replace")) + 1)
