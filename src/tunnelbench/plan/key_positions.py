"""Line and column of each key of a TOML text, from its syntax tree."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import tree_sitter_toml
from tree_sitter import Language, Node, Parser, Point

KeyPath = tuple[str | int, ...]
"""Keys and, for blocks and lists, numbers from 0: the indices that lead to a value."""

DEEPEST_PATH = 6
"""Depth to which values are located; no key that is in use is nested deeper."""


class Position(NamedTuple):
    """A position in a text."""

    line: int
    """Line, from 1."""
    column: int
    """Character in the line, from 1."""


class Located(NamedTuple):
    """The positions of the keys of one text."""

    lines: tuple[bytes, ...]
    points: Mapping[KeyPath, Point]

    def position(self, path: KeyPath) -> Position | None:
        """Return the position of a key, or None if the text has no such key."""
        point = self.points.get(path)
        return _position(self.lines, point) if point else None


def locate(text: str) -> Located:
    """Return the position of every key of a text that is valid TOML."""
    walk = _Walk()
    table: KeyPath = ()
    for node in _tree(text).named_children:
        if node.type == "pair":
            walk.pair((), node)
        elif node.type in ("table", "table_array_element"):
            key, *pairs = _without_comments(node)
            table = walk.heading(key, is_block=node.type == "table_array_element")
            for pair in pairs:
                walk.pair(table, pair)
    return Located(_lines(text), walk.points)


def first_syntax_error(text: str) -> Position | None:
    """Return the position at which a text stops being TOML, or None if the syntax tree shows no error."""
    error = next((node for node in _descend(_tree(text)) if node.is_error or node.is_missing), None)
    return _position(_lines(text), error.start_point) if error else None


class _Walk:
    """The positions found so far in a walk over the tree."""

    def __init__(self) -> None:
        self.points: dict[KeyPath, Point] = {}
        self._blocks: dict[KeyPath, int] = {}
        """Number of `[[name]]` blocks by their path."""

    def heading(self, key: Node, *, is_block: bool) -> KeyPath:
        """Record the position of a heading, and return the path of its table."""
        path = self._key((), key)
        if is_block:
            number = self._blocks.get(path, 0)
            self._blocks[path] = number + 1
            path = (*path, number)
            self.points[path] = _key_parts(key)[-1][1].start_point
        return path

    def pair(self, table: KeyPath, pair: Node) -> None:
        """Record the positions of a key and of the keys inside its value."""
        key, value = _without_comments(pair)
        self._value(self._key(table, key), value)

    def _key(self, path: KeyPath, key: Node) -> KeyPath:
        for part, node in _key_parts(key):
            if path in self._blocks:
                path = (*path, self._blocks[path] - 1)
            path = (*path, part)
            self.points.setdefault(path, node.start_point)
        return path

    def _value(self, path: KeyPath, node: Node) -> None:
        if len(path) > DEEPEST_PATH:
            return
        if node.type == "inline_table":
            for pair in _without_comments(node):
                self.pair(path, pair)
        if node.type == "array":
            for number, element in enumerate(_without_comments(node)):
                self.points[(*path, number)] = element.start_point
                self._value((*path, number), element)


def _tree(text: str) -> Node:
    return Parser(Language(tree_sitter_toml.language())).parse(text.encode()).root_node


def _lines(text: str) -> tuple[bytes, ...]:
    return tuple(text.encode().split(b"\n"))


def _without_comments(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]


def _key_parts(key: Node) -> list[tuple[str, Node]]:
    """Return the parts of a dotted key with their nodes, from left to right."""
    return [(_key_name(node), node) for node in _descend(key) if node.type in ("bare_key", "quoted_key")]


def _key_name(node: Node) -> str:
    text = (node.text or b"").decode()
    return text if node.type == "bare_key" else next(iter(tomllib.loads(f"{text} = 0")))


def _descend(node: Node) -> Iterator[Node]:
    """Yield the node and all nodes below it in the order of the text, without recursion: lists nest without limit."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(current.children))


def _position(lines: tuple[bytes, ...], point: Point) -> Position:
    """Convert a point: tree-sitter counts columns in bytes from 0, editors count characters from 1."""
    before = lines[point.row][: point.column] if point.row < len(lines) else b""
    return Position(point.row + 1, len(before.decode(errors="replace")) + 1)
