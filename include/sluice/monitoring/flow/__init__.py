"""The flow of lines as it is now, from the edges to the published day, and its last 24 hours.

asks: questions that are asked in the background · seen: the answers, together · past: samples, by minute ·
model: what is shown · troubles: what hurts, and where · boxes, tables: the picture from what was seen ·
runbook: what to do · platform: the one picture that everybody gets
"""
