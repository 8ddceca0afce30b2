"""The console in a real browser: for benches, and for the tests of its pages.

tools: Node, a headless Chromium and what checks pages · people: who is logged in · pages: waiting for one.
"""
