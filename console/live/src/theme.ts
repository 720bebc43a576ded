/** Light or dark: the system's choice until somebody presses the button. */
import { by, forgetColours } from "./dom.js";

const KEY = "tiderace-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

export function followTheme(changed: () => void): void {
  const root = document.documentElement;
  const refresh = () => {
    forgetColours();
    changed();
  };
  const kept = localStorage.getItem(KEY);
  if (kept) root.dataset["theme"] = kept;
  dark.addEventListener("change", refresh);
  by("theme").addEventListener("click", () => {
    const isDark = (root.dataset["theme"] ?? (dark.matches ? "dark" : "light")) === "dark";
    root.dataset["theme"] = isDark ? "light" : "dark";
    localStorage.setItem(KEY, root.dataset["theme"]);
    refresh();
  });
}
