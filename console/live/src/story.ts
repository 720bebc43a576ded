/** What happened to the connection, in words. */
import { by, make } from "./dom.js";

const LINES_MAX = 5;

export type Mood = "" | "lost" | "wait" | "good";

/** Adds a line, or replaces the newest one if that tells of the same thing. */
export class Story {
  private readonly list = by("story");

  tell(text: string, mood: Mood = "", replace = false): void {
    const time = make("time", "", new Date().toLocaleTimeString("en-GB"));
    const line = make("li");
    line.append(time, make("span", mood, text));
    if (replace) this.list.firstElementChild?.remove();
    this.list.prepend(line);
    while (this.list.children.length > LINES_MAX) this.list.lastElementChild!.remove();
  }
}
