"""Where the records and cells of a delimited file begin and end, byte by byte.

One rule decides everywhere: a field that starts with a quote runs to the first quote that is not
doubled, then every field runs to the next delimiter or line end (``\\n``, ``\\r\\n`` or ``\\r``,
mixed at will). What a field means depends on its own bytes alone, so moving them keeps the meaning.
"""

import numpy as np
from numba import njit

__all__ = ["copy_with_moves", "find_cells", "find_records", "write_plain"]

_QUOTE, _NEWLINE, _RETURN, _SPACE, _TAB = 34, 10, 13, 32, 9
_PLUS, _MINUS, _POINT, _ZERO, _NINE = 43, 45, 46, 48, 57
_SMALL_E, _CAPITAL_E = 101, 69


@njit(cache=True, nogil=True)
def find_records(data, begin, delimiter):
    """Find every record, and count its fields.

    Parameters
    ----------
    data : ndarray of uint8
        The file.
    begin : int
        Where its first line starts.
    delimiter : int
        The byte between two fields.

    Returns
    -------
    starts : ndarray of int64, shape (n_records,)
        Where each record starts.
    n_fields : ndarray of int32, shape (n_records,)
        Fields of each record; 0 for a blank line, -1 for a record whose last quote is never closed.
    """
    starts = np.empty(1024, dtype=np.int64)
    n_fields = np.empty(1024, dtype=np.int32)
    n_records = 0
    position = begin
    while position < len(data):
        if n_records == len(starts):
            starts, n_fields = _twice_as_long(starts), _twice_as_long(n_fields)
        starts[n_records] = position
        if _is_line_end(data[position]):
            position = _after_line_end(data, position)
            n_fields[n_records] = 0
        else:
            position, n_fields[n_records] = _walk_record(data, position, delimiter)
        n_records += 1
    return starts[:n_records], n_fields[:n_records]


@njit(cache=True, nogil=True)
def find_cells(data, record_starts, delimiter, columns, starts, stops):
    """Find cells; `starts` and `stops` are filled in.

    Parameters
    ----------
    data : ndarray of uint8
        The file.
    record_starts : ndarray of int64, shape (n_cells,)
        Where the record of each cell starts; cells of a record stand together.
    delimiter : int
        The byte between two fields.
    columns : ndarray of int64, shape (n_cells,)
        Column of each cell, increasing within a record.
    starts, stops : ndarray of int64, shape (n_cells,)
        Where each cell starts and stops, its quotes included.
    """
    column, position, record = 0, 0, -1
    for i in range(len(columns)):
        if record_starts[i] != record:
            record = position = record_starts[i]
            column = 0
        while column < columns[i]:
            position = _field_stop(data, position, delimiter)[0] + 1
            column += 1
        starts[i] = position
        stops[i] = _field_stop(data, position, delimiter)[0]


@njit(cache=True, nogil=True)
def copy_with_moves(data, begin, end, starts, stops, from_starts, from_stops, out):
    """Copy ``data[begin:end]`` to `out`, with cells replaced by the bytes of others.

    Parameters
    ----------
    data : ndarray of uint8
        The file.
    begin, end : int
        What to copy; cells inside are inside as a whole.
    starts, stops : ndarray of int64, shape (n_cells,)
        Cells that receive other bytes, in increasing order.
    from_starts, from_stops : ndarray of int64, shape (n_cells,)
        The bytes that they receive.
    out : ndarray of uint8
        Filled in; exactly as long as the result.
    """
    position, filled = begin, 0
    for i in range(len(starts)):
        filled = _copy(data, position, starts[i], out, filled)
        filled = _copy(data, from_starts[i], from_stops[i], out, filled)
        position = stops[i]
    _copy(data, position, end, out, filled)


@njit(cache=True, nogil=True)
def write_plain(data, record_starts, delimiter, n_columns, between, after, style, missing, out):
    """Write records without quotes, outer spaces and missing-value texts, one point in numbers.

    Parameters
    ----------
    data : ndarray of uint8
        The file.
    record_starts : ndarray of int64, shape (n_records,)
        Where the records to write start.
    delimiter : int
        The byte between two fields of `data`.
    n_columns : int
        Fields of a record.
    between, after : int
        Bytes that `data` does not hold: written between fields and after records.
    style : tuple of int, or None
        The bytes for the decimal mark and between thousands; 0 if there is none. None: numbers are
        written with a point and nothing between thousands.
    missing : tuple of ndarray
        The bytes of all texts that mean "no value", and where each of them stops.
    out : ndarray of uint8
        Filled in; as long as the records and one byte more is enough.

    Returns
    -------
    filled : int
        How many bytes were written.
    """
    # Not 0: what it calls would be compiled for this constant, and again for other numbers.
    filled = np.int64(0)
    for start in record_starts:
        position = start
        for column in range(n_columns):
            stop = _field_stop(data, position, delimiter)[0]
            cell = filled
            filled = _trim(out, cell, _copy_unquoted(data, position, stop, out, cell))
            if _is_missing(out, cell, filled, missing[0], missing[1]):
                filled = cell
            elif style is not None:
                filled = _with_point(out, cell, filled, style[0], style[1])
            out[filled] = between if column < n_columns - 1 else after
            filled += 1
            position = stop + 1
    return filled


@njit(cache=True, nogil=True)
def _twice_as_long(values):
    longer = np.empty(2 * len(values), dtype=values.dtype)
    for i in range(len(values)):
        longer[i] = values[i]
    return longer


@njit(cache=True, nogil=True)
def _is_line_end(byte):
    return byte in (_NEWLINE, _RETURN)


@njit(cache=True, nogil=True)
def _after_line_end(data, position):
    step = 1
    if data[position] == _RETURN and position + 1 < len(data) and data[position + 1] == _NEWLINE:
        step = 2
    return position + step


@njit(cache=True, nogil=True)
def _field_stop(data, position, delimiter):
    """Return where a field stops, and whether its quotes are closed."""
    n = len(data)
    if position < n and data[position] == _QUOTE:
        position += 1
        while True:
            while position < n and data[position] != _QUOTE:
                position += 1
            if position == n:
                return n, False
            position += 1
            if position == n or data[position] != _QUOTE:
                break
            position += 1
    while position < n and data[position] != delimiter and not _is_line_end(data[position]):
        position += 1
    return position, True


@njit(cache=True, nogil=True)
def _walk_record(data, position, delimiter):
    """Return where the next line starts, and the fields of the record (-1: open quote)."""
    n_fields = 0
    while True:
        stop, closed = _field_stop(data, position, delimiter)
        if not closed:
            return stop, -1
        n_fields += 1
        if stop == len(data):
            return stop, n_fields
        if data[stop] != delimiter:
            return _after_line_end(data, stop), n_fields
        position = stop + 1


@njit(cache=True, nogil=True)
def _copy(data, start, stop, out, filled):
    for i in range(start, stop):
        out[filled] = data[i]
        filled += 1
    return filled


@njit(cache=True, nogil=True)
def _copy_unquoted(data, start, stop, out, filled):
    if start == stop or data[start] != _QUOTE:
        return _copy(data, start, stop, out, filled)
    start += 1
    while True:
        while data[start] != _QUOTE:
            out[filled] = data[start]
            filled += 1
            start += 1
        start += 1
        if start == stop or data[start] != _QUOTE:
            return _copy(data, start, stop, out, filled)
        out[filled] = _QUOTE
        filled += 1
        start += 1


@njit(cache=True, nogil=True)
def _is_space(byte):
    return byte in (_SPACE, _TAB) or _is_line_end(byte)


@njit(cache=True, nogil=True)
def _trim(out, start, stop):
    """Drop spaces around ``out[start:stop]``, in place; return where it stops now."""
    while stop > start and _is_space(out[stop - 1]):
        stop -= 1
    first = start
    while first < stop and _is_space(out[first]):
        first += 1
    if first == start:
        return stop
    for i in range(first, stop):
        out[start + i - first] = out[i]
    return start + stop - first


@njit(cache=True, nogil=True)
def _is_missing(out, start, stop, texts, text_stops):
    begin = 0
    for end in text_stops:
        if end - begin == stop - start:
            i = 0
            while i < stop - start and out[start + i] == texts[begin + i]:
                i += 1
            if i == stop - start:
                return True
        begin = end
    return False


@njit(cache=True, nogil=True)
def _with_point(out, start, stop, decimal, thousands):
    """Write a number of the given style with a point and nothing between thousands, in place.

    Whatever is no such number stays as it is: dates, names, and groups not of three digits.
    """
    i = start
    if i < stop and (out[i] == _PLUS or out[i] == _MINUS):
        i += 1
    i, n_digits, grouped = _after_integer(out, i, stop, thousands)
    mark = i
    if i < stop and out[i] == decimal:
        i = _after_digits(out, i + 1, stop)
        n_digits += i - mark - 1
    end = i
    if i < stop and not grouped and (out[i] == _SMALL_E or out[i] == _CAPITAL_E):
        i += 1
        if i < stop and (out[i] == _PLUS or out[i] == _MINUS):
            i += 1
        end = _after_digits(out, i, stop)
        i = end if end > i else start
    if i != stop or n_digits == 0:
        return stop
    filled = start
    for k in range(start, stop):
        if k < mark and thousands != 0 and out[k] == thousands:
            continue
        out[filled] = _POINT if k == mark and out[k] == decimal else out[k]
        filled += 1
    return filled


@njit(cache=True, nogil=True)
def _after_digits(out, i, stop):
    while i < stop and _ZERO <= out[i] <= _NINE:
        i += 1
    return i


@njit(cache=True, nogil=True)
def _after_integer(out, i, stop, thousands):
    """Return where an integer stops, its digits, and whether it is in groups of three."""
    begin = i
    i = _after_digits(out, i, stop)
    n_digits = i - begin
    if thousands == 0 or not 1 <= n_digits <= 3 or i == stop or out[i] != thousands:
        return i, n_digits, False
    while i < stop and out[i] == thousands:
        end = _after_digits(out, i + 1, stop)
        if end - i != 4:
            # Not a number in groups: the caller meets the mark where a number cannot go on.
            return i, 0, True
        i = end
        n_digits += 3
    return i, n_digits, True
