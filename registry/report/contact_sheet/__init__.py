"""The contact sheet of mined pairs: one page, the pictures of each pair side by side."""

from optotype.registry.report.contact_sheet.page import contact_sheet

__all__ = ["contact_sheet"]
