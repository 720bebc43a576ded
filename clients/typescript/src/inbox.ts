/**
 * Values that wait for the application: an asynchronous iterator that can be pushed to. Counts the
 * bytes that wait, so that the server can be asked to slow down.
 */
export class Inbox<T> implements AsyncIterableIterator<T> {
  private waiting: { value: T; size: number }[] = [];
  private takers: { resolve: (result: IteratorResult<T>) => void; reject: (error: Error) => void }[] = [];
  private over: { error?: Error } | undefined;

  /** `held` hears of bytes that begin (or, negative, cease) to wait; `left` that nobody reads any more. */
  constructor(
    private readonly held: (bytes: number) => void = () => {},
    private readonly left: () => void = () => {},
  ) {}

  push(value: T, size = 0): void {
    if (this.over) return;
    const taker = this.takers.shift();
    if (taker) return taker.resolve({ value, done: false });
    this.waiting.push({ value, size });
    this.held(size);
  }

  /** No more comes; what waits is still given. */
  end(error?: Error): void {
    if (this.over) return;
    this.over = error ? { error } : {};
    for (const taker of this.takers.splice(0)) this.finish(taker.resolve, taker.reject);
  }

  next(): Promise<IteratorResult<T>> {
    const first = this.waiting.shift();
    if (first) {
      this.held(-first.size);
      return Promise.resolve({ value: first.value, done: false });
    }
    return new Promise((resolve, reject) => {
      if (this.over) this.finish(resolve, reject);
      else this.takers.push({ resolve, reject });
    });
  }

  return(): Promise<IteratorResult<T>> {
    for (const { size } of this.waiting.splice(0)) this.held(-size);
    this.end();
    this.left();
    return Promise.resolve({ value: undefined, done: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** An error is told once; after it the end. */
  private finish(resolve: (result: IteratorResult<T>) => void, reject: (error: Error) => void): void {
    const error = this.over?.error;
    this.over = {};
    if (error) reject(error);
    else resolve({ value: undefined, done: true });
  }
}
