export declare class Emitter<Events extends object> {
    private readonly listeners;
    /** Listens; call what is returned to stop. */
    on<Name extends keyof Events>(name: Name, listener: (value: Events[Name]) => void): () => void;
    /** Tells all listeners; says whether there was one. */
    protected emit<Name extends keyof Events>(name: Name, value: Events[Name]): boolean;
}
/** Shows a defect of the application without stopping anything. */
export declare function report(thrown: unknown): void;
