/** Listeners by name of what happens. A listener that throws does not keep others from being told. */
import { asError } from "./error.js";

type Listener = (value: never) => void;

export class Emitter<Events extends object> {
  private readonly listeners = new Map<keyof Events, Set<Listener>>();

  /** Listens; call what is returned to stop. */
  on<Name extends keyof Events>(name: Name, listener: (value: Events[Name]) => void): () => void {
    let known = this.listeners.get(name);
    if (!known) this.listeners.set(name, (known = new Set()));
    known.add(listener as Listener);
    return () => void known.delete(listener as Listener);
  }

  /** Tells all listeners; says whether there was one. */
  protected emit<Name extends keyof Events>(name: Name, value: Events[Name]): boolean {
    const known = this.listeners.get(name);
    for (const listener of [...(known ?? [])]) {
      try {
        (listener as (value: Events[Name]) => void)(value);
      } catch (thrown) {
        report(thrown);
      }
    }
    return !!known?.size;
  }
}

/** Shows a defect of the application without stopping anything. */
export function report(thrown: unknown): void {
  const { reportError } = globalThis as { reportError?: (error: unknown) => void };
  if (reportError) reportError(asError(thrown));
  else console.error(thrown);
}
