"""The look of every long table: AG Grid on the colours of the page, light and dark."""

from typing import Final

#: AG Grid takes its theme as a piece of JavaScript that Dash looks up among the functions that it knows.
GRID_THEME: Final = {
    "function": "themeQuartz.withParams({backgroundColor: 'var(--surface)', foregroundColor: 'var(--text)', "
    "headerBackgroundColor: 'var(--surface)', headerTextColor: 'var(--muted)', borderColor: 'var(--line)', "
    "rowHoverColor: 'var(--hover)', accentColor: 'var(--accent)', fontFamily: 'inherit', fontSize: 13, "
    "cellHorizontalPadding: 11, headerFontSize: 12, headerFontWeight: 500, wrapperBorder: false, "
    "wrapperBorderRadius: 0, columnBorder: false, headerColumnBorder: false, "
    "headerColumnResizeHandleColor: 'transparent'})"
}
