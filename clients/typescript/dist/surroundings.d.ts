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
export declare function watch({ seen, online, offline }: Surroundings): () => void;
