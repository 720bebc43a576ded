/** What a page learns of its surroundings: that it is seen again, and that the network is back. */

export interface Surroundings {
  /** The page is seen, or runs again after it was frozen. */
  seen(): void;
  /** The network is said to be there again. */
  online(): void;
  /** The network is said to be gone. */
  offline(): void;
}

/** Watches until what is returned is called; does nothing where there is no page. */
export function watch({ seen, online, offline }: Surroundings): () => void {
  const page = globalThis as Partial<Window & typeof globalThis>;
  const document = page.document;
  const visible = () => {
    if (document?.visibilityState !== "hidden") seen();
  };
  const rows: [EventTarget | undefined, string, () => void][] = [
    [document, "visibilitychange", visible],
    [document, "resume", seen],
    [page as EventTarget, "pageshow", visible],
    [page as EventTarget, "online", online],
    [page as EventTarget, "offline", offline],
  ];
  for (const [target, name, listener] of rows) target?.addEventListener?.(name, listener);
  return () => {
    for (const [target, name, listener] of rows) target?.removeEventListener?.(name, listener);
  };
}
