/** Elements, colours and canvases of the page. */

export function by<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

/** A new element with a class and a text. */
export function make<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  className = "",
  text = "",
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

const probe = make("span");
const known = new Map<string, string>();

/** A colour of the present theme, by its name in the style sheet. */
export function colour(name: string): string {
  let value = known.get(name);
  if (value === undefined) {
    if (!probe.isConnected) {
      probe.hidden = true;
      document.body.append(probe);
    }
    probe.style.color = `var(--${name})`;
    value = getComputedStyle(probe).color;
    known.set(name, value);
  }
  return value;
}

/** The theme has changed. */
export function forgetColours(): void {
  known.clear();
}

/** Somewhere to draw, cleared, in CSS pixels. */
export function begin(canvas: HTMLCanvasElement): { pen: CanvasRenderingContext2D; width: number; height: number } {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const pen = canvas.getContext("2d")!;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

const format = new Intl.NumberFormat("en");
export const number = (value: number): string => format.format(value);

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]!}`;
}
