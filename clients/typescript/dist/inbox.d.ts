/**
 * Values that wait for the application: an asynchronous iterator that can be pushed to. Counts the
 * bytes that wait, so that the server can be asked to slow down.
 */
export declare class Inbox<T> implements AsyncIterableIterator<T> {
    private readonly held;
    private readonly left;
    private waiting;
    private takers;
    private over;
    /** `held` hears of bytes that begin (or, negative, cease) to wait; `left` that nobody reads any more. */
    constructor(held?: (bytes: number) => void, left?: () => void);
    push(value: T, size?: number): void;
    /** No more comes; what waits is still given. */
    end(error?: Error): void;
    next(): Promise<IteratorResult<T>>;
    return(): Promise<IteratorResult<T>>;
    [Symbol.asyncIterator](): this;
    /** An error is told once; after it the end. */
    private finish;
}
