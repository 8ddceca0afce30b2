// A picture of all panels, with what they show, to save.
import { colour } from "./looks.js";

/**
 * Save the panels as one picture.
 * @param {string} title
 * @param {import("./panel.js").Panel[]} panels
 */
export function save(title, panels) {
  const scale = devicePixelRatio;
  const plots = panels.flatMap((panel) => (panel.plot ? [{ panel, canvas: panel.plot.ctx.canvas }] : []));
  const [head, row, gap] = [40 * scale, 18 * scale, 16 * scale];
  const rows = plots.map(({ panel }) => panel.rows.length + 2);
  const picture = document.createElement("canvas");
  picture.width = Math.max(...plots.map(({ canvas }) => canvas.width)) + 2 * gap;
  picture.height = head + plots.reduce((sum, { canvas }, own) => sum + canvas.height + rows[own] * row, 0);
  const pen = picture.getContext("2d");
  if (!pen) return;
  pen.fillStyle = colour("--card");
  pen.fillRect(0, 0, picture.width, picture.height);
  const write = (/** @type {string} */ text, /** @type {number} */ size, /** @type {number} */ left, /** @type {number} */ top) => {
    pen.fillStyle = colour("--ink");
    pen.font = `${size * scale}px system-ui, sans-serif`;
    pen.fillText(text, left, top, picture.width - left - gap);
  };
  write(title, 16, gap, 25 * scale);
  let top = head;
  for (const { panel, canvas } of plots) {
    write(panel.metric.name, 13, gap, (top += row));
    pen.drawImage(canvas, gap, top);
    top += canvas.height;
    for (const button of panel.legend.querySelectorAll("button")) {
      const swatch = button.querySelector(".swatch");
      pen.fillStyle = swatch ? getComputedStyle(swatch).borderTopColor : "";
      pen.fillRect(gap, top + 6 * scale, 18 * scale, 3 * scale);
      write(button.innerText.replace(/\s+/g, " "), 12, gap + 26 * scale, top + 12 * scale);
      top += row;
    }
    top += row;
  }
  picture.toBlob((blob) => {
    if (!blob) return;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${title}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  });
}
